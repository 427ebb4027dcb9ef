"""Files exchanged with other programs: headers, bundles, recordings, and other tuners' formats."""
