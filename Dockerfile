# A service that learns: docker build -t undrift . && docker run -e UNDRIFT_TOKEN=... -p 8000:8000 -v "$PWD/sales-run:/run-folder" undrift
# The run's folder is a volume: the journal in it is what must not be lost.
FROM python:3.12 AS build
WORKDIR /source
COPY . .
ENV PIP_CONSTRAINT=/source/locks/test.txt PIP_BUILD_CONSTRAINT=/source/locks/test.txt
RUN python -m venv /undrift && /undrift/bin/pip install --no-cache-dir ".[serve]"

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 undrift
COPY --from=build /undrift /undrift
ENV PATH=/undrift/bin:$PATH PYTHONUNBUFFERED=1
USER 1000
VOLUME /run-folder
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["undrift", "serve"]
CMD ["/run-folder", "--host", "0.0.0.0"]
