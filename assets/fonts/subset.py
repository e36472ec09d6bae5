"""Reduces Inter to the characters of charts, with digits of equal width.

    pip install fonttools
    python subset.py Inter-Regular.otf Inter-SemiBold.otf     (the full fonts, in another folder)

Writes files with the same names beside this script.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

UNICODES = (
    "U+0020-007E,U+00A0-017F,U+0386-03CE,U+2010-2015,U+2018-201E,U+2020-2022,U+2026,U+2030,U+2032,U+2033,U+2039,"
    "U+203A,U+2044,U+2070-208E,U+20AC,U+2122,U+2126,U+2190-2199,U+2202,U+2206,U+220F,U+2211,U+2212,U+2215,"
    "U+2219-221A,U+221E,U+222B,U+2248,U+2260,U+2264,U+2265,U+22C5,U+25A0,U+25B2,U+25BC,U+25CF,U+2713,U+2717"
)

for path in map(Path, sys.argv[1:]):
    font = TTFont(path)
    # Not all SVG renderers support `font-variant-numeric`, so the tabular digits replace the default digits.
    for lookup in font["GSUB"].table.FeatureList.FeatureRecord:
        if lookup.FeatureTag == "tnum":
            tables = [font["GSUB"].table.LookupList.Lookup[index] for index in lookup.Feature.LookupListIndex]
            break
    swaps = {}
    for table in tables:
        for part in table.SubTable:
            part = getattr(part, "ExtSubTable", part)
            swaps.update(part.mapping)
    for table in font["cmap"].tables:
        for digit in "0123456789":
            if ord(digit) in table.cmap:
                table.cmap[ord(digit)] = swaps.get(table.cmap[ord(digit)], table.cmap[ord(digit)])
    options = subset.Options()
    options.layout_features = ["kern", "mark", "ccmp"]
    options.hinting = False
    options.desubroutinize = True
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14, 16, 17]
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=subset.parse_unicodes(UNICODES.replace("U+", "")))
    cutter.subset(font)
    font.save(Path(__file__).parent / path.name)
