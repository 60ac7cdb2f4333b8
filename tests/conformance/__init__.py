"""scikit-learn's own tests, run on gpuens' estimators: ``python -m tests.conformance``.

The tests are those of the installed scikit-learn, untouched. ``plugin`` puts our classes in the
place of scikit-learn's before a test file is imported, ``running`` runs a file in a process of
its own, ``suites`` says which files with which classes, and ``lists/NAME.toml`` holds every test
that fails, with its reason. A list may only shrink: a failure that is not in it is an error, and
so is an entry whose test passes.
"""
