"""The glossary explains words that exist: every file it names is there, and every attribute is one of ours."""

import re

import numpy as np
import pytest
from test_site import DOCS, ROOT

import undrift as ud

TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")


def test_it_explains_every_word_once():
    words = re.findall(r"^\| \*\*([\w -]+)\*\* \|", TEXT, re.MULTILINE)
    assert len(words) >= 20
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:src|tests|docs|tools)/[\w./-]+)`", TEXT))))
def test_the_files_it_names_exist(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+\.\w+)`", TEXT))))
def test_the_attributes_it_names_exist(name):
    owner, attribute = name.split(".")
    special = {"Learner": ud.DiscountedVAW(), "Trace": ud.trace.Trace(np.zeros(1))}
    assert attribute in dir(special[owner] if owner in special else getattr(ud, owner)())
