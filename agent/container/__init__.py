"""The port to a runtime, labels, bodies to post, and what a plain process can keep of one."""
