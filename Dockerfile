# A small image with the commands rdmawire and rdmawire-agent.
#
#   docker build --tag rdmawire .
#   docker run --rm --volume "$PWD:/captures:ro" rdmawire analyze capture.pcap
#   docker run --rm --network host --cap-add NET_RAW --volume "$PWD:/captures" rdmawire capture -i eth0 -o capture.pcapng

FROM debian:bookworm-slim AS build
WORKDIR /rdmawire
COPY scripts/setup.sh scripts/
RUN bash scripts/setup.sh demo package
COPY . .
RUN scripts/package --programs --output /packages deb

FROM debian:bookworm-slim
COPY --from=build /packages/rdmawire_*.deb /packages/rdmawire-agent_*.deb /packages/
RUN apt-get update && apt-get install --yes --no-install-recommends /packages/*.deb && rm -rf /packages /var/lib/apt/lists/*
WORKDIR /captures
ENTRYPOINT ["rdmawire"]
CMD ["--help"]
