KINDS=("random",)
