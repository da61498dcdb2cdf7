"""agentctl: argparse; talks HTTP over the unix socket, or runs the daemonless commands itself."""
