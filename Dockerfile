# The dispatcher as an image. The root file system may be read-only: only /data and /tmp are written.
#   docker build --tag dispatcher .
#   docker run --init --read-only --tmpfs /tmp --volume dispatcher:/data --publish 8085:8085 dispatcher
# Without DISPATCHER_DATABASE_URL an embedded Postgres in /data is used; `--init` reaps the processes that it leaves.

FROM python:3.11-slim AS build

COPY requirements.lock /build/
RUN python -m venv /opt/dispatcher \
    && /opt/dispatcher/bin/pip install --no-cache-dir --require-hashes --no-deps -r /build/requirements.lock

COPY dispatcher /opt/dispatcher/lib/python3.11/site-packages/dispatcher
COPY channels /opt/dispatcher/lib/python3.11/site-packages/channels
COPY bench /opt/dispatcher/lib/python3.11/site-packages/bench
# Compiled here, since nothing can be written later. The launcher replaces itself, so that signals reach Python.
RUN /opt/dispatcher/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/dispatcher/lib \
    && printf '#!/bin/sh\nexec /opt/dispatcher/bin/python -P -m dispatcher "$@"\n' > /opt/dispatcher/bin/dispatcher \
    && chmod 0755 /opt/dispatcher/bin/dispatcher


FROM python:3.11-slim

LABEL org.opencontainers.image.title="dispatcher" \
      org.opencontainers.image.description="A self-hosted notification engine on Postgres." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT"

# The user has a name because Postgres asks for one, and a fixed number because volumes remember it.
RUN groupadd --gid 10001 dispatcher \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin dispatcher \
    && install -d -m 0700 -o 10001 -g 10001 /data

COPY --from=build /opt/dispatcher /opt/dispatcher

ENV PATH="/opt/dispatcher/bin:$PATH" \
    HOME="/data" \
    PYTHONDONTWRITEBYTECODE="1" \
    PYTHONUNBUFFERED="1" \
    DISPATCHER_DATABASE__DATA_DIR="/data/postgres" \
    DISPATCHER_HTTP__HOST="0.0.0.0" \
    DISPATCHER_HTTP__PORT="8085"

USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8085
STOPSIGNAL SIGTERM

# http.client and not urllib: a proxy in the environment must not be asked for this container's own port. The start
# period covers the first start, which makes a database.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['DISPATCHER_HTTP__PORT']), timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]

ENTRYPOINT ["dispatcher"]
CMD ["serve", "--migrate"]
