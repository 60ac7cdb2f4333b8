# A machine with an NVIDIA GPU and the NVIDIA Container Toolkit:
#
#   docker build --tag gpuens .
#   docker run --rm --gpus all gpuens                          # a first model on the GPU
#   docker run --rm --gpus all -v "$PWD:/out" gpuens \
#       make gpu-check PY=python ARGS="--output /out"          # all tests and measurements
#
# The driver comes from the host. Its version of CUDA chooses the extra: --build-arg CUDA=cuda12
FROM python:3.13-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev libgomp1 make \
    && rm -rf /var/lib/apt/lists/*

ARG CUDA=cuda13
WORKDIR /gpuens
COPY . .
RUN python -m pip install --no-cache-dir --editable ".[${CUDA},test,bench]"
# Kernels are compiled here, so that nothing is compiled on the machine with the GPU.
RUN python -m building library && python -m building cubins

CMD ["python", "-c", "import gpuens; gpuens.GradientBoostingClassifier(device='cuda').fit([[0.0], [1.0]] * 50, [0, 1] * 50); print(gpuens.show_config())"]
