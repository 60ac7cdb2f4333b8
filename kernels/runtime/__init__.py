"""How operations are dispatched, compiled and launched."""
