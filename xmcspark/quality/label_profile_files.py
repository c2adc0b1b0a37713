"""A label profile in a folder, mapped into memory when opened: tasks look up the labels of their rows in it."""

from __future__ import annotations

from pathlib import Path

from xmcspark.errors import InputError
from xmcspark.quality.label_bins import LabelBins
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND, _VERSION = "label profile", 1


def save_profile(profile: LabelProfile, folder: Path) -> None:
    given = {"labels": profile.labels, "weights": profile.weights, "positives": profile.positives}
    arrays = {name: values for name, values in given.items() if values is not None}
    for number, division in enumerate(profile.divisions):
        arrays[f"bins.{number}"], arrays[f"sizes.{number}"] = division.of_label, division.sizes
    names = [list(division.names) for division in profile.divisions]
    save_arrays(folder, _KIND, _VERSION, {"bins": names}, arrays)


def load_profile(folder: Path) -> LabelProfile:
    header, arrays = load_arrays(folder, _KIND, _VERSION)
    try:
        divisions = tuple(
            LabelBins(tuple(names), arrays[f"bins.{number}"], arrays[f"sizes.{number}"])
            for number, names in enumerate(header["bins"])
        )
        return LabelProfile(arrays["labels"], arrays.get("weights"), divisions, arrays.get("positives"))
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder}: its header is not that of a {_KIND}: {error}") from error
