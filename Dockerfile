# docker build -t saddleback . && docker run --rm saddleback
# Tests: docker build --target test -t saddleback-test . && docker run --rm saddleback-test
FROM python:3.12-slim AS base
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore OPENBLAS_NUM_THREADS=1
WORKDIR /src
COPY . .
RUN pip install --constraint constraints.txt '.[all]' && useradd --create-home user

FROM base AS test
# Playwright's driver needs libatomic1.
RUN apt-get update && apt-get install --yes --no-install-recommends chromium git libatomic1 make \
  && rm -rf /var/lib/apt/lists/*
ENV SADDLEBACK_BROWSER=required
CMD ["make", "test"]

FROM base
USER user
WORKDIR /home/user
ENTRYPOINT ["saddleback"]
CMD ["quickstart"]
