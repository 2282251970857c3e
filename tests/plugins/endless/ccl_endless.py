"""A hooks module that starts a thread that never ends."""

import threading
import time

from ccl_plugins import ComponentSpec, hookimpl

threading.Thread(target=time.sleep, args=(1000,), name="ccl-endless").start()


@hookimpl
def ccl_components():
    yield ComponentSpec("kernel", "endless", "ccl_endless:nothing")
