"""What other programs read and write: headers, bundles, and the formats of Kernel Tuner and its kin."""
