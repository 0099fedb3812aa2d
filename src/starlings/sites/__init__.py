"""Sites of several organisations: who they are, what they all sign, and what passed between them.

    site_names.py       names of sites, in certificates and as names of files
    documents.py        JSON with one spelling only, and signed documents
    keys.py             private keys in files, fingerprints to be read over the telephone
    certificates.py     requests and certificates, and why a certificate is refused
    identity.py         the folder of a site, with its private key
    authority.py        the folder of the coordinator, with the key that signs everything
    trial.py            the trial file, which all organisations agree on
    limits.py           what a run may use and disclose at most
    trial_code.py       its Python files: a sampler, a model
    trial_text.py       its only spelling, and a draft of it
    numerics.py         a fingerprint of the arithmetic of a machine
    manifest.py         what runs: one document that the authority and all sites sign
    manifest_checks.py  whether it says the same everywhere
    revocations.py      the list of certificates that are no longer valid
    archive.py          kits as zip files, read with suspicion
    kit.py              what a site needs to take part
    provisioning.py     requests of sites in, kits out
    approvals.py        the signature of a site under a manifest
    description.py      a manifest in plain words
    site_data.py        the rows of one site, whose columns may have names of their own
    kit_checks.py       whether a site can take part, and what to do if not
    reachability.py     whether a relay can be reached
    transcript.py       what a site sent and received, line by line
    audit.py            whether the transcripts of two sites agree
    agreement.py        what all sites agree on before anything else: a seed, and keys for masks
    absence.py          which sites are absent, and the run of the others
    encodings.py        the agreed columns of a formula, saved for the run of the others
    site.py             one site that is ready, and how it reaches the others
    joining.py          one site in a run, from its kit to its draws
    same_run.py         what a run has in common with itself when it starts again
    endings.py          what ends a run before its time: hours and signals
    status.py           how a site is doing, written every second
    status_reader.py    the same, read
    status_view.py      what it means, in words
    status_lines.py     ... in a terminal
    dashboard.py        ... on a page for this machine alone
    rehearsal.py        all sites and a relay on one machine

The authority is a certificate authority of one trial. Its private key stays with the coordinator,
and the private key of a site stays at the site. What the coordinator publishes are two small signed
documents with rising numbers (the manifest and the list of revoked certificates) and one kit for
each site. A kit changes only if the certificate of that site does.
"""
