"""Making contextual encoders: from pairs of texts to trained weights.

data (pairs) ──▶ batching (clusters, packing, batches, filter) ──▶ gradients ──▶ trainer
                                                                       ▲
                                        objectives, gradcache, distributed
"""
