"""The errors users see. Each message says what was wrong, where, what was expected and how to fix it. Each kind has
an exit code of its own, so that a scheduler knows whether to try again (docs/run-book.md)."""


class InputError(ValueError):
    """The data given cannot be used as it is: malformed, empty, or not matching its companions."""

    exit_code = 4


class ConfigError(ValueError):
    """One or more settings are wrong. Carries all the problems found, not just the first."""

    exit_code = 2

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class PlatformError(RuntimeError):
    """This machine lacks something, or is not the kind of machine that was asked for."""

    exit_code = 3


class StoreError(RuntimeError):
    """The run store holds something that does not fit: a damaged manifest, a table that is not there."""

    exit_code = 4


class TransientError(RuntimeError):
    """Something outside failed that may work next time: storage, the network, lost machines."""

    exit_code = 5


class RefusedError(RuntimeError):
    """The model is not good enough to be published, by the gates of the configuration."""

    exit_code = 6


class ConflictError(RuntimeError):
    """Somebody else changed what this job was about to change."""

    exit_code = 7
