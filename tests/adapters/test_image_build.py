"""What a builder's stream says, and what an Engine lists, read into our words."""

from __future__ import annotations

import pytest

from agent.adapters.image_build import Fold, made_of
from agent.image.port import BuildEvent, InstructionFailed, Made


def test_a_stream_is_read_instruction_by_instruction() -> None:
    """As Engine 20.10 writes it: steps, cached ones, output, and noise of its own."""
    fold, events = Fold(), []
    for text in (
        "Step 1/2 : FROM busybox",
        "\n",
        " ---> c2aae4b171c3\n",
        'Step 2/2 : RUN echo "Step 9/9"',
        " ---> Using cache\n",
        " ---> Running in 0123456789ab\n",
        "hello\n",
        "Removing intermediate container 0123456789ab\n",
        "Successfully built a2ca09ac0304\n",
    ):
        events += fold.note({"stream": text})
    assert not fold.finished
    assert list(fold.note({"aux": {"ID": "sha256:1"}})) == []
    assert fold.finished
    assert events == [
        BuildEvent(1, 2),
        BuildEvent(2, 2),
        BuildEvent(2, 2, cached=True),
        BuildEvent(2, 2, output="hello\n"),
    ]


def test_an_error_of_the_stream_is_raised_with_its_words() -> None:
    """Behind an HTTP status of 200."""
    with pytest.raises(InstructionFailed, match="returned a non-zero code: 1"):
        list(Fold().note({"errorDetail": {"code": 1}, "error": "The command 'x' returned\n a non-zero code: 1"}))


def test_a_finished_image_has_names_and_a_step_has_none() -> None:
    labels = {"recipe-agent.image": "tiny"}
    entry = {"Id": "sha256:1", "Labels": labels, "Size": 5, "Created": 7, "ParentId": "sha256:0"}
    assert made_of(entry | {"RepoTags": ["a:1"]}) == Made("sha256:1", "tiny", ("a:1",), 5, 7.0, "sha256:0")
    assert made_of(entry | {"RepoTags": ["<none>:<none>"]}).names == ()
    assert made_of({"Id": "sha256:1", "RepoTags": None, "ParentId": ""}) == Made("sha256:1", "", (), 0, 0.0)
