"""A hooks module during whose import somebody presses Ctrl-C."""

raise KeyboardInterrupt
