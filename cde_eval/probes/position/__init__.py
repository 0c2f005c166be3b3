"""Does it matter where in a document the answer stands? Four ways to ask.

    passages ──┬▶ starts     where relevant passages stand
               ├▶ moved      the same passage at ten places of its document, searched for
               ├▶ tenths     a document and its ten tenths, compared
               └▶ spans      what a language model fills in, early and late in its input

Source: Coelho et al. (2024), Dwell in the Beginning, https://arxiv.org/abs/2404.04163
"""
