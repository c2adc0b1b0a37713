"""What a run will take, before it runs: units of training, memory, shuffles, hours and dollars."""
