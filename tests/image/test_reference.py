"""Names of images."""

from __future__ import annotations

import pytest

from agent.image.reference import Reference, digest_of, parse

D = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("busybox", Reference("docker.io/library/busybox")),
        ("vllm/vllm-openai:v1", Reference("docker.io/vllm/vllm-openai", "v1")),
        ("docker.io/vllm/vllm-openai:v1", Reference("docker.io/vllm/vllm-openai", "v1")),
        ("index.docker.io/library/busybox", Reference("docker.io/library/busybox")),
        ("127.0.0.1:5000/a/b:c", Reference("127.0.0.1:5000/a/b", "c")),
        ("127.0.0.1:5000/a", Reference("127.0.0.1:5000/a")),
        (f"localhost/a@{D}", Reference("localhost/a", None, D)),
        (f"ghcr.io/x/y:v2@{D}", Reference("ghcr.io/x/y", "v2", D)),
    ],
)
def test_a_reference_is_taken_apart(text: str, expect: Reference) -> None:
    """The repository in full; a port is no tag."""
    assert parse(text) == expect


def test_registry_and_path_of_a_repository() -> None:
    """As a registry's own API wants them."""
    reference = parse("busybox:1")
    assert (reference.registry, reference.path) == ("docker.io", "library/busybox")


def test_the_digest_is_that_of_the_repository_asked_for() -> None:
    """An image that is known to two registries has two digests, and short names mean Docker Hub."""
    digests = (f"reg.example/a@sha256:{'1' * 64}", f"vllm/vllm-openai@{D}")
    assert digest_of(digests, "docker.io/vllm/vllm-openai:v1") == D
    assert digest_of(digests, "reg.example/a:x") == f"sha256:{'1' * 64}"
    assert digest_of(digests, "other/a") is None
