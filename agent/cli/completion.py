"""agentctl completion: completions for bash, zsh and fish; slugs come from the agent while one types."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

BASH = """\
_agentctl() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{commands}" -- "$cur"))
  elif [[ " {with_slug} " == *" $command "* ]]; then
    COMPREPLY=($(compgen -W "$(agentctl status -q 2>/dev/null | awk '/^[^ ]/ {{print $1}}')" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F _agentctl agentctl
"""

ZSH = """\
#compdef agentctl
_agentctl() {{
  if ((CURRENT == 2)); then
    compadd {commands}
  elif [[ " {with_slug} " == *" $words[2] "* ]]; then
    compadd $(agentctl status -q 2>/dev/null | awk '/^[^ ]/ {{print $1}}')
  else
    _files
  fi
}}
compdef _agentctl agentctl
"""

FISH = """\
complete -c agentctl -n __fish_use_subcommand -f -a "{commands}"
complete -c agentctl -n "__fish_seen_subcommand_from {with_slug}" -f \
-a "(agentctl status -q 2>/dev/null | awk '/^[^ ]/ {{print \\$1}}')"
"""

WITH_SLUG = "status logs events stop start restart remove pause observe resume upgrade rollback history incidents"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="whose")


def run(arguments: Namespace) -> int:
    from agent.cli.main import COMMANDS

    text = {"bash": BASH, "zsh": ZSH, "fish": FISH}[arguments.shell]
    print(text.format(commands=" ".join(COMMANDS), with_slug=WITH_SLUG), end="")
    return 0
