"""Files for and from other programs: headers, bundles, recordings, and the formats of other tuners."""
