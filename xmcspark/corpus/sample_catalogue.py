"""The catalogue of the sample shop: items with titles a person can judge predictions by. An item is a product with
a brand, a colour and a quality; no two are the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.corpus.sample_words import BRAND_ENDS, BRAND_STARTS, COLOURS, DEPARTMENTS

_ITEM_ZIPF = 0.7
_BRANDS_PER_DEPARTMENT = 9
_NEW_ITEMS = 0.08  # share of the catalogue that comes after the first days
_NEW_FROM, _NEW_UNTIL = 5, 58  # days


@dataclass(frozen=True)
class Catalogue:
    """Items by number. `traits` are numbers of (product, brand, colour, quality) in `names`."""

    keys: list[str]
    titles: list[str]
    traits: np.ndarray
    names: tuple[list[str], list[str], list[str], list[str]]
    popularity: np.ndarray  # weight of each item
    first_day: np.ndarray  # the day on which it is first sold, 0 for most
    of_product: list[np.ndarray]  # items by product

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Items by popularity."""
        cumulative = np.cumsum(self.popularity)
        found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        capped: np.ndarray = np.minimum(found, len(cumulative) - 1)
        return capped

    def words(self, item: int, said: np.ndarray, turn: float) -> str:
        """A query for an item that names its brand, colour and quality where `said`; `turn` in [0, 1) is how it
        is put."""
        product, *rest = (names[trait] for names, trait in zip(self.names, self.traits[item], strict=True))
        brand, colour, quality = (name if one else "" for name, one in zip(rest, said, strict=True))
        if turn < 0.5:
            parts = (brand, colour, quality, product)
        elif turn < 0.75:
            parts = (colour, quality, product, brand)
        else:
            parts = (product, quality, colour, brand)
        return " ".join(part for part in parts if part).lower()

    def fitting(self, item: int, said: np.ndarray) -> np.ndarray:
        """Items of the same product that agree in what is said."""
        others = self.of_product[self.traits[item, 0]]
        agree = (self.traits[others, 1:] == self.traits[item, 1:]) | ~said
        fitting: np.ndarray = others[agree.all(axis=1)]
        return fitting


def make_catalogue(rng: np.random.Generator, size: int) -> Catalogue:
    brands = _brands(rng)
    products: list[str] = []
    qualities = sorted(
        {q for sold in DEPARTMENTS.values() for said in sold.values() for q in _qualities(said)}
    )
    traits = []
    share = -(-size // sum(map(len, DEPARTMENTS.values())))
    for sold in DEPARTMENTS.values():
        # Few brands a department, so that a brand says something about products.
        of_department = rng.choice(len(brands), _BRANDS_PER_DEPARTMENT, replace=False)
        for name, said in sold.items():
            numbers = np.array([qualities.index(quality) for quality in _qualities(said)])
            products.append(name)
            traits.append(_items(rng, len(products) - 1, of_department, numbers, share))
    chosen = np.concatenate(traits)
    chosen = chosen[rng.permutation(len(chosen))[:size]]
    names_of = (products, brands, list(COLOURS), qualities)
    titles = _titles(chosen, names_of)
    popularity = (np.arange(len(chosen)) + 2.7) ** -_ITEM_ZIPF
    new = rng.random(len(chosen)) < _NEW_ITEMS
    first_day = np.where(new, rng.integers(_NEW_FROM, _NEW_UNTIL, len(chosen)), 0)
    keys = [f"A{number:06d}" for number in rng.permutation(len(chosen)) + 1]
    of_product = [np.flatnonzero(chosen[:, 0] == product) for product in range(len(products))]
    return Catalogue(keys, titles, chosen, names_of, popularity, first_day, of_product)


def _qualities(said: str) -> list[str]:
    return [word.replace("-", " ") for word in said.split()]


def _items(
    rng: np.random.Generator, product: int, brands: np.ndarray, qualities: np.ndarray, count: int
) -> np.ndarray:
    """Traits of `count` items of one product, different as long as there are combinations."""
    shape = (len(brands), len(COLOURS), len(qualities))
    combinations = int(np.prod(shape))
    rounds = [rng.permutation(combinations) for _ in range(-(-count // combinations))]
    brand, colour, quality = np.unravel_index(np.concatenate(rounds)[:count], shape)
    return np.column_stack([np.full(count, product), brands[brand], colour, qualities[quality]])


def _titles(traits: np.ndarray, names: tuple[list[str], list[str], list[str], list[str]]) -> list[str]:
    """Brand, quality, product, colour; a model number where the shop has several of a kind."""
    seen: dict[str, int] = {}
    titles = []
    for product, brand, colour, quality in traits.tolist():
        title = f"{names[1][brand]} {names[3][quality].title()} {names[0][product].title()}, {names[2][colour].title()}"
        seen[title] = seen.get(title, 0) + 1
        titles.append(title if seen[title] == 1 else f"{title}, Model {seen[title]}")
    return titles


def _brands(rng: np.random.Generator) -> list[str]:
    every = [start + end for start in BRAND_STARTS for end in BRAND_ENDS]
    return [every[number] for number in rng.permutation(len(every))[:40]]
