"""agentctl completion: completions for bash, zsh and fish; slugs come from the agent while one types."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SLUGS = "$(agentctl status -q 2>/dev/null | awk '/^[^ ]/ {print $1}')"
BASH = """\
_agentctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@commands" -- "$cur"))
    return
  fi
  if ((COMP_CWORD == 2)); then
    case $command in
@cases
    esac
  fi
  if [[ " @with_slug " == *" $command "* ]]; then
    COMPREPLY+=($(compgen -W "@slugs" -- "$cur"))
  elif ((${#COMPREPLY[@]} == 0)); then
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _agentctl agentctl
"""
BASH_CASE = """      {command}) COMPREPLY=($(compgen -W "{words}" -- "$cur")) ;;"""
ZSH = """\
#compdef agentctl
_agentctl() {
  if ((CURRENT == 2)); then
    compadd @commands
    return
  fi
  if ((CURRENT == 3)); then
    case $words[2] in
@cases
    esac
  fi
  if [[ " @with_slug " == *" $words[2] "* ]]; then
    compadd @slugs
  elif ((CURRENT > 3)) || [[ " @with_words " != *" $words[2] "* ]]; then
    _files
  fi
}
compdef _agentctl agentctl
"""
ZSH_CASE = """      {command}) compadd {words} ;;"""
FISH = """\
complete -c agentctl -n __fish_use_subcommand -f -a "@commands"
@cases
complete -c agentctl -n "__fish_seen_subcommand_from @with_slug" -f \
-a "(agentctl status -q 2>/dev/null | awk '/^[^ ]/ {print \\$1}')"
"""
FISH_CASE = """complete -c agentctl -n "__fish_seen_subcommand_from {command}" -f -a "{words}\""""

WITH_SLUG = (
    "status logs events stop start restart remove pause observe resume upgrade rollback history incidents verify drill"
)
WORDS = {
    "recipes": "search show fetch",
    "image": "save load prune",
    "incidents": "show export",
    "drill": "stall zombie crash slow-start",
    "notify": "test",
    "config": "check show",
    "completion": "bash zsh fish",
}
"""Command → what its first word can be."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", choices=("bash", "zsh", "fish"), help="whose")


def run(arguments: Namespace) -> int:
    text = script(arguments.shell)
    if arguments.json:
        from agent.cli.output import print_json

        print_json({"shell": arguments.shell, "script": text})
    else:
        print(text, end="")
    return 0


def script(shell: str) -> str:
    """What a shell of that kind is to read."""
    from agent.cli.main import COMMANDS

    text, case = {"bash": (BASH, BASH_CASE), "zsh": (ZSH, ZSH_CASE), "fish": (FISH, FISH_CASE)}[shell]
    filled = {
        "commands": " ".join(COMMANDS),
        "cases": "\n".join(case.format(command=command, words=words) for command, words in WORDS.items()),
        "with_slug": WITH_SLUG,
        "with_words": " ".join(WORDS),
        "slugs": SLUGS,
    }
    for name in sorted(filled, key=len, reverse=True):
        text = text.replace(f"@{name}", filled[name])
    return text
