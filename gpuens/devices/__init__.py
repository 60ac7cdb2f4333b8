"""Devices that hold arrays and run the work, and their memory."""
