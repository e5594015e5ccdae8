"""Sketches: the structures that a program may get, derived rule by rule (Ansor).

    for sketch in sketch.derive(program): print(sketch)
    sketch.derive(program, rules=[MyRule(), *sketch.rules()])
"""

from . import _fettle

Sketch, SketchState = _fettle.Sketch, _fettle.SketchState


def rules():
    """The names of the built-in rules, in the order in which they are tried."""
    return _fettle.sketch_rules()


def derive(func, rules=None, cores=1, tiling="SSRSRS", max_innermost=64, max_states=10000):
    """All sketches of the program. `rules` are names of built-in rules or objects of one's own."""
    return _fettle.derive_sketches(func, rules, cores, tiling, max_innermost, max_states)[0]


def refusals(func, **options):
    """(rule, node, why) where a rule's condition held but its steps were refused."""
    return _fettle.derive_sketches(func, **options)[1]


class MultiLevelTiling:
    """MultiLevelTiling("SSRSRS").apply(schedule, block): the loops of each level, outermost first."""

    def __init__(self, structure="SSRSRS", max_innermost=64, tile_binds=()):
        self.structure, self.max_innermost, self.tile_binds = structure, max_innermost, list(tile_binds)

    def apply(self, schedule, block):
        """Tiles the block's loops, and returns those of each level."""
        return _fettle.multi_level_tiling(schedule, block, self.structure, self.max_innermost, self.tile_binds)
