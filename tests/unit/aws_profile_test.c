/* aws_profile_test.c - the files that the AWS tools share, and the times in answers. */
#include "net/aws_profile.h"

#include "net/aws.h"
#include "tests/harness/test.h"

static const char credentials[] = "# mine\n"
                                  "[default]\n"
                                  "aws_access_key_id = AKIDDEFAULT\n"
                                  "aws_secret_access_key=s3cr3t=with=equals # a note\r\n"
                                  "\n"
                                  "[profile odd]\n"
                                  "aws_access_key_id = WRONG\n"
                                  "[ deploy ]\n"
                                  "aws_access_key_id = AKIDDEPLOY\n"
                                  "s3 =\n"
                                  "  region = nested\n"
                                  "region = eu-west-1\n";
static const char config[] = "[default]\n"
                             "region = us-west-2\n"
                             "[profile deploy]\n"
                             "region = eu-central-1\n"
                             "[deploy]\n"
                             "region = not-a-profile\n"
                             "[profile last]\n"
                             "region = ap-south-1";

static const char *get(const char *text, bool is_config, const char *profile, const char *key)
{
    static char value[64];

    return tn_aws_profile_get(text, is_config, profile, key, value, sizeof value) ? value : NULL;
}

TEST(a_setting_is_found_in_its_section)
{
    CHECK_STR(get(credentials, false, "default", "aws_access_key_id"), "AKIDDEFAULT");
    CHECK_STR(get(credentials, false, "default", "aws_secret_access_key"), "s3cr3t=with=equals");
    CHECK_STR(get(credentials, false, "deploy", "aws_access_key_id"), "AKIDDEPLOY");
    CHECK_STR(get(credentials, false, "default", "region"), NULL);
    CHECK_STR(get(config, true, "default", "region"), "us-west-2");
    CHECK_STR(get(config, true, "last", "region"), "ap-south-1");
}

TEST(nested_settings_are_not_those_of_the_profile)
{
    CHECK_STR(get(credentials, false, "deploy", "region"), "eu-west-1");
}

TEST(the_two_files_name_profiles_differently)
{
    CHECK_STR(get(config, true, "deploy", "region"), "eu-central-1");
    CHECK_STR(get(credentials, false, "odd", "aws_access_key_id"), NULL);
    CHECK(tn_aws_profile_exists(config, true, "deploy"));
    CHECK(tn_aws_profile_exists(credentials, false, "deploy"));
    CHECK(!tn_aws_profile_exists(config, true, "odd"));
    CHECK(!tn_aws_profile_exists("", true, "default"));
    CHECK(!tn_aws_profile_exists("[default", false, "default"));
}

TEST(a_value_that_does_not_fit_is_not_cut)
{
    char value[8] = "before";

    CHECK(!tn_aws_profile_get(credentials, false, "default", "aws_access_key_id", value,
                              sizeof value));
    CHECK_STR(value, "before");
}

static int64_t seconds(const char *text)
{
    int64_t at = -1;

    return tn_aws_time_parse(text, &at) ? at : -1;
}

TEST(times_of_answers_are_read)
{
    CHECK_EQ_I64(seconds("1970-01-01T00:00:00Z"), 0);
    CHECK_EQ_I64(seconds("2000-02-29T23:59:59Z"), 951868799);
    CHECK_EQ_I64(seconds("2024-12-31T00:00:00.123Z"), 1735603200);
    CHECK_EQ_I64(seconds("2026-03-01T12:30:15Z"), 1772368215);
    CHECK_EQ_I64(seconds("2026-03-01 12:30:15Z"), -1);
    CHECK_EQ_I64(seconds("2026-13-01T12:30:15Z"), -1);
    CHECK_EQ_I64(seconds("2026-03-01T12:30:15"), -1);
    CHECK_EQ_I64(seconds("2026-03"), -1);
    CHECK_EQ_I64(seconds(""), -1);
}
