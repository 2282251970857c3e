"""What is measured while a run trains: probes, rank, geometry of the embeddings, and what it costs."""
