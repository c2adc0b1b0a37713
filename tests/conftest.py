"""Which build the tests run on, and how long property tests try. XMCSPARK_EXPECT_CHECKED=1 says that the kernels
must be the checked ones (.ci/run): these are slow, so they get fewer examples."""

import os

import hypothesis

import xmcspark._native.cpu  # noqa: F401  first, so that no test's path puts another build before it

CHECKED = os.environ.get("XMCSPARK_EXPECT_CHECKED", "0") == "1"
IN_CI = bool(os.environ.get("CI"))

# No deadline: machines are shared. In CI the same examples each time: a red build must be about the change.
hypothesis.settings.register_profile(
    "xmcspark",
    deadline=None,
    max_examples=20 if CHECKED else 100,
    derandomize=IN_CI,
    database=None if IN_CI else hypothesis.settings.get_profile("default").database,
)
hypothesis.settings.load_profile("xmcspark")
