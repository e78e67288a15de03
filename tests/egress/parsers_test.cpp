// The parsers of foreign bytes, alone.
#include <gtest/gtest.h>

#include "egress/client_hello.h"
#include "egress/http_body.h"
#include "egress/http_head.h"
#include "egress/idn.h"
#include "egress/protocol.h"
#include "egress/socks.h"
#include "egress/tally.h"

namespace sallyport::egress {
namespace {

TEST(RequestHead, IsReadTheSameHoweverItsBytesArrive) {
  const std::string bytes =
      "POST http://Web.test:81/a?b=c HTTP/1.1\r\nHost: web.test:81\r\nContent-Length: 3\r\n\r\nabc";
  for (std::size_t i = 0; i + 4 < bytes.size() - 3; ++i) {
    const auto part = parse_request_head(std::string_view(bytes).substr(0, i));
    ASSERT_TRUE(part);
    EXPECT_FALSE(part->has_value());
  }
  const auto head = parse_request_head(bytes);
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->host, "Web.test");
  EXPECT_EQ((*head)->port, 81);
  EXPECT_EQ((*head)->path, "/a?b=c");
  EXPECT_EQ((*head)->framing.length, 3U);
  EXPECT_EQ((*head)->bytes, bytes.size() - 3);
  EXPECT_EQ(to_origin(**head),
            "POST /a?b=c HTTP/1.1\r\nHost: Web.test:81\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
}

TEST(RequestHead, WhatConnectionNamesStaysOnThisHopButTheFramingDoesNot) {
  const auto head = parse_request_head(
      "GET http://a.test/ HTTP/1.1\r\nConnection: x-one, content-length\r\nX-One: 1\r\nContent-Length: 2\r\n\r\n");
  ASSERT_TRUE(head && *head);
  const std::string sent = to_origin(**head);
  EXPECT_EQ(sent.find("X-One"), std::string::npos);
  EXPECT_NE(sent.find("Content-Length: 2"), std::string::npos);
}

TEST(ResponseHead, BothLengthAndChunksAreRefused) {
  EXPECT_FALSE(parse_response_head("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_FALSE(parse_response_head("HTTP/1.1 2000 OK\r\n\r\n"));
  EXPECT_FALSE(parse_response_head("ICY 200 OK\r\n\r\n"));
  const auto plain = parse_response_head("HTTP/1.1 204\r\n\r\n");
  ASSERT_TRUE(plain && *plain);
  EXPECT_EQ((*plain)->status, 204);
}

TEST(BodyReader, FindsTheEndOfChunksHoweverTheyAreSplit) {
  const std::string body = "4\r\nabcd\r\nA\r\n0123456789\r\n0\r\n\r\n";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    BodyReader reader({Framing::Kind::chunked, 0}, BodyOf::request);
    const auto first = reader.feed(std::string_view(body).substr(0, cut));
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, cut);
    const auto second = reader.feed(body.substr(cut) + "next");
    ASSERT_TRUE(second);
    EXPECT_EQ(*first + *second, body.size());
    EXPECT_TRUE(reader.is_done());
  }
}

TEST(BodyReader, PassesExtensionsAndTrailersOfAResponseOnly) {
  const std::string body = "5;a=b;c=\"d\"\r\nhello\r\n3 \r\nyou\r\n0;last\r\nX-Sum: 1\r\nY: 2\r\n\r\n";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    BodyReader reader({Framing::Kind::chunked, 0}, BodyOf::response);
    const auto first = reader.feed(std::string_view(body).substr(0, cut));
    const auto second = reader.feed(std::string_view(body).substr(cut));
    ASSERT_TRUE(first && second) << cut;
    EXPECT_EQ(*first + *second, body.size());
    EXPECT_TRUE(reader.is_done());
  }
  const auto is_refused = [](BodyOf of, const std::string& text) {
    return !BodyReader({Framing::Kind::chunked, 0}, of).feed(text);
  };
  EXPECT_TRUE(is_refused(BodyOf::request, body));
  EXPECT_TRUE(is_refused(BodyOf::request, "0\r\nX: 1\r\n\r\n"));
  EXPECT_TRUE(is_refused(BodyOf::response, "5;a\nhello\r\n0\r\n\r\n"));
  EXPECT_TRUE(is_refused(BodyOf::response, "5;" + std::string(20'000, 'x')));
}

TEST(RequestHead, APathThatIsNotAsciiGoesOnInEscapes) {
  const auto request = parse_request_head("GET http://h.test/\xc3\xbc?q=\xff HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(request && *request);
  EXPECT_EQ((*request)->path, "/%C3%BC?q=%FF");
  EXPECT_FALSE(parse_request_head("GET http://h.test/a\x7f HTTP/1.1\r\n\r\n"));
}

TEST(Idn, NamesBecomeTheOneFormThatRulesAreWrittenIn) {
  const auto name = [](std::string_view text) {
    const auto host = canonical_host(text);
    return host ? host->to_string() : "refused";
  };
  EXPECT_EQ(name("B\xc3\xbc"
                 "cher.Example"),
            "xn--bcher-kva.example");
  EXPECT_EQ(name("\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1"), "127.0.0.1");
  EXPECT_EQ(name("a\xe3\x80\x82"
                 "b"),
            "a.b");
  EXPECT_EQ(name("\xff\xfe"), "refused");
  EXPECT_EQ(name("fa\xc3\x9f.de"), "xn--fa-hia.de") << "not fass.de";
}

TEST(Protocol, OrdersAndReportsSurviveTheWay) {
  wire::Decoder decoder;
  policy::NetLimits limits;
  limits.bytes = 7;
  limits.duration = Millis(9);
  auto policy = policy::NetPolicy::make({"*.a.test:1"}, {"b.test"}, limits);
  ASSERT_TRUE(policy);
  const auto packet = encode(ToProxy(Serve{"box", *policy, {1, 2}}));
  ASSERT_TRUE(packet);
  const auto order = decode_order(decoder, packet->view());
  ASSERT_TRUE(order) << order.error().describe();
  const auto& serve = std::get<Serve>(*order);
  EXPECT_EQ(serve.container, "box");
  EXPECT_EQ(serve.policy.allow.at(0).text, "*.a.test:1");
  EXPECT_TRUE(serve.policy.limits == limits);
  EXPECT_FALSE(serve.policy.is_faulty);
  EXPECT_EQ(serve.used.requests, 2U);
  EXPECT_FALSE(decode_order(decoder, packet->view().first(packet->size() - 1)));
  EXPECT_FALSE(decode_report(decoder, packet->view()));
}

wire::Document parse_json(const std::string& text) {
  wire::Decoder decoder;
  auto document = decoder.parse(text);
  EXPECT_TRUE(document);
  return std::move(*document);
}

TEST(Tallies, FitAFrameAndTellFirstWhomWasReached) {
  Tally tally;
  for (int i = 0; i < 2000; ++i) {
    for (int reason = 0; reason < 4; ++reason) {
      Report refused;
      refused.host = "a" + std::to_string(i) + std::string(240, 'a') + ".org";
      refused.code = Code::policy_denied;
      refused.reason = "no rule names it " + std::to_string(reason);
      refused.remedy = refused.host;
      if (i == 500) refused.kind = Report::Kind::opened;
      tally.add(refused);
    }
  }
  const auto told = parse_json(wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    tally.describe(json);
    json.end_object();
  }));
  const wire::Value hosts = told.root().get("net");
  EXPECT_LT(told.root().to_json().size(), wire::kMaxFrameBytes);
  EXPECT_TRUE((*hosts.items().begin()).get("host").as_string()->starts_with("a500a"));
  EXPECT_GT(told.root().get("net_left_out").as_uint().value_or(0), 0U);
  EXPECT_EQ(hosts.size() + told.root().get("net_left_out").as_uint().value_or(0), tally.entries().size());
  // Where it goes into no frame, all of it is told.
  const auto all = parse_json(wire::to_json([&](wire::JsonWriter& json) { tally.write(json); }));
  EXPECT_EQ(all.root().size(), tally.entries().size());
}

TEST(Tallies, ThatFitSayNothingOfWhatIsLeftOut) {
  Tally tally;
  tally.add(Report{});
  EXPECT_EQ(wire::to_json([&](wire::JsonWriter& json) {
              json.begin_object();
              tally.describe(json);
              json.end_object();
            }).find("net_left_out"),
            std::string::npos);
}

}  // namespace
}  // namespace sallyport::egress
