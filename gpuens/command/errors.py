"""The error of all commands."""


class CommandError(Exception):
    """The input of a command is wrong; the text says what to do, in one line."""
