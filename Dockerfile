# A server in a container, with compiled modules; docs/operating.md tells how to run it.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY tools tools
COPY src src
RUN python3 -m venv /opt/headgate && HEADGATE_COMPILE=yes /opt/headgate/bin/pip install --no-cache-dir .

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/headgate /opt/headgate
RUN useradd --system --uid 1000 --no-create-home headgate && install -d -o headgate -g headgate /data
ENV PATH=/opt/headgate/bin:$PATH
USER headgate
VOLUME /data
EXPOSE 9092 9192
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9192/healthz', timeout=2)"]
ENTRYPOINT ["headgate"]
CMD ["serve", "--data-dir", "/data", "--listen", "0.0.0.0:9092", "--advertise", "localhost:9092", "--metrics-listen", "0.0.0.0:9192"]
