"""recipe-agent: runs published inference recipes on GPU hosts and watches over the engines."""
