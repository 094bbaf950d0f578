"""The explorers: controls above a picture that is drawn anew at every change.

    from helpers import explore
    explore.rows()

Each explorer is a file of its own: a plain function that computes, one that draws, and one that
puts controls to it. Without a front end a cell shows the picture of the first settings.
"""

from helpers.explore.all_reduce import all_reduce
from helpers.explore.memory import memory
from helpers.explore.pipeline import pipeline
from helpers.explore.rows import rows
from helpers.explore.step_time import step_time
from helpers.explore.which_split import which_split

__all__ = ["all_reduce", "memory", "pipeline", "rows", "step_time", "which_split"]
