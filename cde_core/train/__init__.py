"""Making contextual encoders: from pairs of texts to trained weights.

pairs ──▶ clusters ──▶ packing ──▶ batches ──▶ losses ──▶ gradcache ──▶ trainer
"""
