"""Parts that the readers of all formats share: checked fields, UBJSON, and trees put in order."""
