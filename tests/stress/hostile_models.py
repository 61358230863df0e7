"""Model files forged (a valid digest over changed contents) or damaged: one sentence, or a model that works.

python -m tests.stress.hostile_models [tries] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from tests.test_hostile_files import MODELS, VALUES, changed, loaded, places, use
from undrift import store

NUMBERS = (0.0, -1.0, 1e-300, 1e9, 1e75, 1e300, np.inf, np.nan)


def forge(dice: random.Random, header: dict, arrays: dict) -> tuple[dict, dict]:
    """Return header and arrays with a few entries of either changed."""
    arrays = {name: np.array(array) for name, array in arrays.items()}
    for _ in range(dice.randint(1, 3)):
        if dice.random() < 0.5 or not arrays:
            header = changed(header, dice.choice([*places(header)]), dice.choice((..., *VALUES)))
            if not header:
                return header, arrays
        else:
            name = dice.choice([*arrays])
            array = arrays[name]
            if dice.random() < 0.3 or not array.size:
                arrays[name] = dice.choice([array[:0], array.ravel(), np.zeros((3, 3)), np.ones(10_000)])
            else:
                array.flat[dice.randrange(array.size)] = dice.choice(NUMBERS)
    return header, arrays


def damage(dice: random.Random, data: bytes) -> bytes:
    """Return bytes with some flipped, cut or repeated."""
    spoiled = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        spoiled[dice.randrange(min(len(spoiled), dice.choice([16, 400, len(spoiled)])))] = dice.randrange(256)
    cut = dice.randrange(len(spoiled))
    return bytes(dice.choice([spoiled, spoiled[:cut], spoiled + spoiled[cut:]]))


def main(tries: int = 3000, seed: int = 0) -> int:
    dice = random.Random(seed)
    warnings.simplefilter("ignore")  # a forged kernel level is said to be another
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        whole, path = {}, Path(folder) / "model.undrift"
        for name, make in MODELS.items():
            make().save(path)
            whole[name] = (*store.read(path), path.read_bytes())
        for _ in range(tries):
            header, arrays, data = whole[dice.choice([*whole])]
            if dice.random() < 0.7:
                store.write(path, *forge(dice, header, arrays))
            else:
                path.write_bytes(damage(dice, data))
            model = loaded(path)
            refused += model is None
            with np.errstate(all="ignore"):
                use(model)
    print(f"{tries:,} files, {refused:,} refused in one sentence, {tries - refused:,} worked")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
