"""What can be wrong with a profile."""

from __future__ import annotations

from agent.errors import InvalidInput, UsageError


class BadProfile(InvalidInput):
    """A profile that is there and cannot be used."""

    code = "profile.invalid"
    message = "cannot read the profile {what}: {why}"
    hint = "the shipped profiles (config/profiles) show every key in use"


class BadSet(UsageError):
    """A `--set KEY=VALUE` that names no key of a profile, or gives it no fitting value."""

    code = "usage.set"
    message = "cannot set {word}: {why}"
    hint = "KEY is any key that `plan` lists as missing, or a dotted path of the profile such as requirements.driver"
