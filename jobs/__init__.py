"""One thin entry point per job of ./spark-submit.sh."""
