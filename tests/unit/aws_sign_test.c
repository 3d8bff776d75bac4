/* aws_sign_test.c - signatures that Amazon publishes, for the secret in its examples. */
#include "tests/harness/test.h"

#include <string.h>

#include "net/aws_sign.h"

static const struct tn_aws_sign example = {
    .region = "us-east-1",
    .service = "s3",
    .key_id = "AKIAIOSFODNN7EXAMPLE",
    .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};

static void check_signature(const struct tn_aws_request *request, const char *names,
                            const char *signature)
{
    char buf[600];
    struct tn_text text;
    struct tn_aws_headers headers = { .authorization = &text };

    tn_text_init(&text, buf, sizeof buf);
    CHECK_EQ_I64(tn_aws_sign(&example, request, &headers), 0);
    CHECK(strstr(buf, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ") !=
          NULL);
    CHECK_STR(strstr(buf, "Signature="), signature);
    CHECK(strstr(buf, names) != NULL);
}

TEST(amazons_example_of_an_object_is_signed_as_amazon_does)
{
    static const char *const headers[] = { "Range: bytes=0-9", NULL };
    const struct tn_aws_request request = {
        .method = "GET",
        .host = "examplebucket.s3.amazonaws.com",
        .path = "/test.txt",
        .headers = headers,
        .date = "20130524T000000Z",
    };

    check_signature(&request, "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, ",
                    "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(amazons_example_of_a_put_is_signed_as_amazon_does)
{
    static const char *const headers[] = { "Date: Fri, 24 May 2013 00:00:00 GMT",
                                           "x-amz-storage-class: REDUCED_REDUNDANCY", NULL };
    const struct tn_aws_request request = {
        .method = "PUT",
        .host = "examplebucket.s3.amazonaws.com",
        .path = "/test%24file.text",
        .headers = headers,
        .body = "Welcome to Amazon S3.",
        .body_len = 21,
        .date = "20130524T000000Z",
    };

    check_signature(&request,
                    "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, ",
                    "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(amazons_examples_of_a_query_are_signed_as_amazon_does)
{
    struct tn_aws_request request = {
        .method = "GET",
        .host = "examplebucket.s3.amazonaws.com",
        .path = "/",
        .query = "lifecycle",
        .date = "20130524T000000Z",
    };

    check_signature(&request, "SignedHeaders=host;x-amz-content-sha256;x-amz-date, ",
                    "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    request.query = "prefix=J&max-keys=2"; /* Sorted before it is signed. */
    check_signature(&request, "SignedHeaders=host;x-amz-content-sha256;x-amz-date, ",
                    "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(what_cannot_be_signed_is_refused)
{
    static const char *const headers[] = { "no colon", NULL };
    char buf[600];
    struct tn_text text;
    struct tn_aws_headers ret = { .authorization = &text };
    struct tn_aws_request request = {
        .method = "GET", .host = "h", .path = "/", .headers = headers, .date = "20130524T000000Z"
    };

    tn_text_init(&text, buf, sizeof buf);
    CHECK_EQ_I64(tn_aws_sign(&example, &request, &ret), TENURE_E_INVALID);
    request.headers = NULL;
    request.date = "yesterday";
    CHECK_EQ_I64(tn_aws_sign(&example, &request, &ret), TENURE_E_INVALID);
    request.date = "20130524T000000Z";
    tn_text_init(&text, buf, 40);
    CHECK_EQ_I64(tn_aws_sign(&example, &request, &ret), TENURE_E_INVALID);
}
