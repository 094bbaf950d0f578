"""Run pieces of code one after the other in this process and tell how each of them ended.

Standard input is JSON, {"before": code, "pieces": {name: code}}. The names that ``before`` defines
are given to each piece; a piece sees no names of another. The last line of the output is JSON, an
outcome for each piece.
"""

import contextlib
import io
import json
import sys
import warnings


def attempt(code: str, names: dict) -> dict:
    """What the code printed, the warnings it raised, and the exception that ended it, if any."""
    printed = io.StringIO()
    error = ""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, "article", "exec"), {"__name__": "__main__", **names})
        except Exception as exception:
            error = f"{type(exception).__name__}: {exception}"
    warned = [str(warning.message) for warning in caught]
    return {"printed": printed.getvalue(), "warned": warned, "error": error}


if __name__ == "__main__":
    task = json.load(sys.stdin)
    given: dict = {}
    exec(task["before"], given)
    outcomes = {name: attempt(code, given) for name, code in task["pieces"].items()}
    print("\n" + json.dumps(outcomes))
