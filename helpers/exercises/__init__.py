"""The exercises: check an answer, say what may be wrong with it, never raise.

    from helpers import exercises
    exercises.check("devices/visible", answer)

The exercises of a chapter are a file of their own, and are known by chapter and name.
"""

from helpers.exercises.exercise import Exercise, check

__all__ = ["Exercise", "check"]
