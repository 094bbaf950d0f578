"""What a run of a notebook shows, in the form in which two runs are compared; and what can be run
again in the end."""

from typing import Any


def outputs_of(notebook: dict[str, Any]) -> dict[str, list[str]]:
    """What each checked cell has printed and shown as text, by cell id. Outputs with facts of the
    machine are not compared, as in the strict check; pictures and widgets by their texts."""
    found = {}
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and "nbval-ignore-output" not in tags:
            printed = {"stdout": "", "stderr": ""}
            for output in cell["outputs"]:
                if output["output_type"] == "stream":
                    printed[output["name"]] += "".join(output["text"])
            shown = [
                "".join(o["data"].get("text/plain", "")) for o in cell["outputs"] if "data" in o
            ]
            found[cell["id"]] = [*printed.values(), *shown]
    return found


def last_cells(notebook: dict[str, Any]) -> list[str]:
    """The ids of the last three code cells, without those before the end of the workers. (A cell
    that needs the workers then says which one to run first: tests/test_workers.py.)"""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"][-3:]
    ends = [i for i, cell in enumerate(code) if "workers.stop()" in "".join(cell["source"])]
    return [cell["id"] for cell in code[max(ends, default=0) :]]
