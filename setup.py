"""The packages of the distribution: ``gpuens``, and the folder ``kernels`` as ``gpuens.kernels``.
Everything else is in ``pyproject.toml``."""

from setuptools import find_namespace_packages, find_packages, setup

kernels = find_namespace_packages(
    include=["kernels", "kernels.*"], exclude=["*.__pycache__", "*.prebuilt"]
)
setup(
    packages=[
        *find_packages(include=["gpuens", "gpuens.*"], exclude=["gpuens.kernels"]),
        *(f"gpuens.{name}" for name in kernels),
    ],
    package_dir={"gpuens.kernels": "kernels"},
)
