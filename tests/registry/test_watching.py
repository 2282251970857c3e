"""What runs inside a watch is seen, and stays off the standard output."""

from __future__ import annotations

import sys
import threading

import pytest

from registry.watching import KEPT, Watch


def test_words_go_to_the_standard_error_and_are_noted(capsys):
    watch = Watch()
    with watch.watching():
        print("hello")
        sys.stdout.writelines(["a", "b"])
    print("after")
    assert capsys.readouterr() == ("after\n", "hello\nab")
    assert watch.printed == "hello\n"


def test_of_a_long_speech_the_beginning_is_kept(capsys):
    watch = Watch()
    with watch.watching():
        print("x" * 10 * KEPT)
    assert watch.printed == "x" * KEPT
    assert len(capsys.readouterr().err) == 10 * KEPT + 1


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_is_raised_passes_and_the_output_is_back(capsys, error):
    with pytest.raises(error), Watch().watching():
        raise error
    print("back")
    assert capsys.readouterr().out == "back\n"


def test_without_a_standard_error_words_are_noted_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    watch = Watch()
    with watch.watching():
        print("unheard", flush=True)
    assert watch.printed == "unheard\n"


def test_new_top_level_modules_are_noted(tmp_path, monkeypatch):
    (tmp_path / "toy_brought").mkdir()
    (tmp_path / "toy_brought" / "__init__.py").write_text("from . import part")
    (tmp_path / "toy_brought" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    watch = Watch()
    with watch.watching():
        import toy_brought  # noqa: F401  the import is what is watched
    assert watch.modules == {"toy_brought"}
    for name in ("toy_brought", "toy_brought.part"):
        del sys.modules[name]


def test_threads_that_overlap_bring_the_output_back():
    own, entered, leave = sys.stdout, threading.Event(), threading.Event()

    def other():
        with Watch().watching():
            entered.set()
            leave.wait(timeout=10)

    thread = threading.Thread(target=other)
    with Watch().watching():
        thread.start()
        entered.wait(timeout=10)
    assert sys.stdout is not own  # the other is still at it
    leave.set()
    thread.join()
    assert sys.stdout is own
