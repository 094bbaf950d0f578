"""``python -m helpers``: the survey in a terminal.

Exit status: 0 where a framework can use two GPUs, 1 where none can, 2 for a wrong argument.
"""

import argparse
import json
import sys

from helpers.survey import survey

parser = argparse.ArgumentParser(
    prog="python -m helpers",
    description="Say which GPUs this machine has, what each framework can use, and why not more.",
    epilog="Exit status: 0 where a framework can use two GPUs, 1 where none can.",
)
parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
arguments = parser.parse_args()
sys.stdout.reconfigure(errors="replace")  # a card's name may not fit the terminal's encoding
found = survey()
print(json.dumps(found.as_dict(), indent=2) if arguments.json else found)
raise SystemExit(0 if found.ready else 1)
