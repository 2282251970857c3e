"""A hooks module that writes past Python, and starts a thread that never ends."""

import os
import threading
import time

from ccl_plugins import ComponentSpec, hookimpl

os.write(1, b"Welcome from C!\n")
threading.Thread(target=time.sleep, args=(1000,), name="ccl-endless").start()


@hookimpl
def ccl_components():
    yield ComponentSpec("kernel", "endless", "ccl_endless:nothing")
