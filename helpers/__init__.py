"""What the notebooks share and what is not the lesson. Importing it imports no framework."""
