"""The small processes of the pipeline. They share stream types and nothing else."""
