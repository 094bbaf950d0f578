"""What the notebooks share and what is not the lesson. Importing it imports no framework."""

import logging

# Matplotlib, which TensorFlow brings too, logs where it keeps its cache when no folder suits it.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
