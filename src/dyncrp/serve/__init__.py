"""``dyncrp serve``: named streams behind HTTP, whose rows are in a journal before they are answered."""
