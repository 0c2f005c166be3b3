"""The two-stage transformer, written once.

config ──▶ transformer ──▶ backbones ──▶ pooling ──▶ biencoder ──▶ contextual
                                                                       │
checkpoint (save, load, published formats) ◀── encode (texts in, vectors out) ◀── context
"""
